package node

import "github.com/ringlet/ringlet/ipam"

// Preview restores a machine while its database is being opened, so that a start
// reads the file once: it is a persist.Preview. The node that is made with it
// takes the machine, or restores one from the store if the preview was not shown
// all that the store has.
type Preview struct {
	cfg ipam.Config

	restoring *ipam.Restoration
	err       error // of the first record that could not be taken in
	complete  bool
}

// NewPreview returns a preview that has been shown nothing. Of the machine's
// configuration it goes by what tells which records are understood; all else may
// be another one in the node's.
func NewPreview(cfg ipam.Config) *Preview { return &Preview{cfg: cfg} }

// Begin forgets what was shown, as another file is read.
func (p *Preview) Begin() {
	p.complete = false
	p.restoring, p.err = ipam.NewRestoration(p.cfg)
}

// Visit takes in a record. An error waits until it is known whether the file is
// damaged, which explains more.
func (p *Preview) Visit(bucket string, key, value []byte) {
	if p.err == nil {
		p.err = p.restoring.Visit(bucket, key, value)
	}
}

// End says that what was shown is what the store has.
func (p *Preview) End() { p.complete = true }

// restore returns the machine that the store describes. A preview is used once, as
// it holds only until something is written.
func (cfg Config) restore() (*ipam.Machine, error) {
	p := cfg.Preview
	if p == nil || !p.complete {
		return ipam.Restore(cfg.Machine, cfg.Store.Load)
	}
	restoring, err := p.restoring, p.err
	*p = Preview{cfg: p.cfg}
	if err != nil {
		return nil, err
	}
	return restoring.Machine(cfg.Machine)
}
