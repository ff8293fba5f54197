package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The docker command runs a program docker-NAME that lies in one of its
// plugin directories, first with metadataWord alone to hear what it is, then
// with its own arguments: docker -H unix:///x ringlet status becomes
// docker-ringlet -H unix:///x ringlet status.
const (
	metadataWord  = "docker-cli-plugin-metadata"
	dockerName    = "ringlet"
	dockerProgram = "docker-" + dockerName
)

// writeMetadata tells the docker command what this program is.
func writeMetadata(out io.Writer, version string) error {
	text, err := json.MarshalIndent(struct{ SchemaVersion, Vendor, Version, ShortDescription string }{
		SchemaVersion:    "0.1.0",
		Vendor:           "ringlet",
		Version:          version,
		ShortDescription: "IP address management for Docker networks",
	}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", text)
	return err
}

// dockerArgs returns the arguments for the root command, and what the docker
// command says of the engine if it has called, nil if not. Then its own flags and
// the plugin's name are taken out; the engine's address stays as --host.
func dockerArgs(argv []string) (args []string, docker *dockerCall, err error) {
	if len(argv) == 0 {
		return nil, nil, nil
	}
	args = argv[1:]
	if len(args) > 0 && args[0] == metadataWord {
		return args[:1], &dockerCall{}, nil
	}
	if filepath.Base(argv[0]) != dockerProgram {
		return args, nil, nil
	}
	docker = &dockerCall{}
	// The shell's completion, and docker help ringlet.
	if len(args) > 1 && args[1] == dockerName && slices.Contains([]string{"help", "__complete", "__completeNoDesc"}, args[0]) {
		return slices.Concat(args[:1], args[2:]), docker, nil
	}

	flags := pflag.NewFlagSet("docker", pflag.ContinueOnError)
	flags.SetInterspersed(false) // what follows the name is ours
	flags.Usage = func() {}
	flags.SetOutput(io.Discard)
	host := flags.StringArrayP("host", "H", nil, "")
	flags.StringVarP(&docker.context, "context", "c", "", "")
	flags.StringVar(&docker.config, "config", "", "")
	for _, name := range []string{"tlscacert", "tlscert", "tlskey"} {
		flags.String(name, "", "")
	}
	flags.StringP("log-level", "l", "", "")
	flags.BoolP("debug", "D", false, "")
	flags.Bool("tls", false, "")
	flags.Bool("tlsverify", false, "")
	if err := flags.Parse(args); err != nil {
		// --help, or a flag of ours before any command: let the root command say.
		return args, docker, nil //nolint:nilerr // not docker's arguments then
	}
	rest := flags.Args()
	if len(rest) > 0 && rest[0] == dockerName {
		rest = rest[1:]
	}
	if n := len(*host); n > 0 {
		if docker.context != "" {
			return nil, docker, &usageError{"name the engine with --host or with --context, not with both"}
		}
		rest = append([]string{"--host", (*host)[n-1]}, rest...)
	}
	return rest, docker, nil
}

// ownName is the name of this program where an example calls it.
var ownName = regexp.MustCompile(`(?m)(^\s*|[(|] *)ringlet `)

// speakDocker makes the help of the command and of all below it call the
// program as the docker command does.
func speakDocker(c *cobra.Command) {
	if !c.HasParent() {
		c.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "docker " + dockerName}
	}
	c.Example = ownName.ReplaceAllString(c.Example, "${1}docker ringlet ")
	for _, below := range c.Commands() {
		speakDocker(below)
	}
}
