package node

import "github.com/ringlet/ringlet/ipam"

// Preview restores a machine while its database is being opened, so that a start
// reads the file once: it is a persist.Preview. The node that is made with it
// takes the machine, or restores one from the store if the preview was not shown
// all that the store has.
type Preview struct {
	config func() ipam.Config

	restoring *ipam.Restoration
	err       error // of the first record that could not be taken in
	complete  bool
}

// NewPreview returns a preview that has been shown nothing. config is called when
// a database is there to be read.
func NewPreview(config func() ipam.Config) *Preview { return &Preview{config: config} }

// Begin forgets what was shown, as another file is read.
func (p *Preview) Begin() {
	p.complete = false
	p.restoring, p.err = ipam.NewRestoration(p.config())
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

// restore returns the machine that the store describes. An empty one describes
// none: what the new machine is to be may have followed from that.
func (cfg Config) restore() (*ipam.Machine, error) {
	p := cfg.Preview
	switch {
	case p == nil || !p.complete || p.err == nil && p.restoring.Empty():
		return ipam.Restore(cfg.Machine, cfg.Store.Load)
	case p.err != nil:
		return nil, p.err
	}
	return p.restoring.Machine()
}
