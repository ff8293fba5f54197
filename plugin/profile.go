//go:build profile

package main

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

// CPU_PROFILE names the file in which a program that is built with the tag profile keeps, once it gets SIGUSR1,
// what it has spent its processor time on since its start. The profile that the compiler goes by is made of that: make
// profile.
func init() { //nolint:gochecknoinits // so that the program as it is released knows nothing of it
	path := os.Getenv("CPU_PROFILE")
	if path == "" {
		return
	}
	f, err := os.Create(path + ".part")
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		panic(err)
	}
	enough := make(chan os.Signal, 1)
	signal.Notify(enough, syscall.SIGUSR1)
	go func() {
		<-enough
		pprof.StopCPUProfile()
		if f.Close() == nil {
			_ = os.Rename(f.Name(), path) // whoever waits for it finds all of it
		}
	}()
}
