package client

import (
	"context"
	"errors"
	"io"

	"orcas/sdk"
)

// catCommand prints objects.
type catCommand struct {
	connection
	Addresses []string `arg:"" name:"address" placeholder:"ADDRESS" complete:"address" help:"Print this object, s3://BUCKET/KEY. Several objects are printed one after another."`
	VersionID string   `placeholder:"ID" help:"Print this version of the object."`
	Offset    size     `placeholder:"SIZE" help:"Begin at this byte."`
	Length    size     `placeholder:"SIZE" help:"Print this many bytes."`
	Tail      size     `placeholder:"SIZE" help:"Print the last bytes only."`
}

// Validate is called by kong.
func (c *catCommand) Validate() error {
	switch {
	case c.Tail != 0 && (c.Offset != 0 || c.Length != 0):
		return usagef("--tail cannot be combined with --offset and --length")
	case c.VersionID != "" && len(c.Addresses) > 1:
		return usagef("--version-id is for one object")
	case c.JSON:
		return usagef("--json: the content of objects is printed as it is")
	}
	return nil
}

// Run prints the objects.
func (c *catCommand) Run(ctx context.Context, console *Console) error {
	all := make([]Address, len(c.Addresses))
	for i, text := range c.Addresses {
		var err error
		if all[i], err = parseRemote(text, "s3://BUCKET/KEY"); err != nil {
			return err
		}
	}
	s, err := c.start(ctx, console)
	if err != nil {
		return err
	}
	for _, at := range all {
		o := &sdk.GetOptions{VersionID: c.VersionID, Offset: int64(c.Offset), Length: int64(c.Length), Suffix: int64(c.Tail)}
		if err := s.cat(at, o); err != nil {
			return s.end(err)
		}
	}
	return s.end(nil)
}

// cat prints an object. Its content is verified at the end, when it has been printed: a damaged object is an error.
func (s *session) cat(at Address, o *sdk.GetOptions) error {
	r, err := s.open(at)
	if err != nil {
		return err
	}
	object, err := r.Get(s.ctx, at.Bucket, at.Key, o)
	if err != nil {
		return r.explain(err)
	}
	defer object.Close()
	out := &remembering{w: s.Stdout}
	if _, err := io.CopyBuffer(out, struct{ io.Reader }{object}, make([]byte, 256<<10)); err != nil {
		if out.err != nil {
			return &statusError{StatusDisk, "cannot write the output: " + out.err.Error(), err}
		}
		if errors.Is(err, sdk.ErrChecksum) {
			return &statusError{StatusFailed, shown(at.String()) + " is damaged: what was printed is not its content: " + err.Error(), err}
		}
		return r.explain(err)
	}
	return nil
}

// remembering remembers the error of a writer, to tell it from errors of the reader.
type remembering struct {
	w   io.Writer
	err error
}

func (m *remembering) Write(p []byte) (n int, err error) {
	n, err = m.w.Write(p)
	if err != nil {
		m.err = err
	}
	return n, err
}

// pipeCommand stores the standard input.
type pipeCommand struct {
	connection
	transfer
	properties
	Address string `arg:"" placeholder:"ADDRESS" complete:"address" help:"Store the standard input as this object, s3://BUCKET/KEY."`
	New     bool   `help:"Fail if the object exists already."`
}

// Run stores the standard input.
func (c *pipeCommand) Run(ctx context.Context, console *Console) error {
	at, err := parseRemote(c.Address, "s3://BUCKET/KEY")
	if err != nil {
		return err
	}
	s, err := c.startTransfer(ctx, console, &c.transfer)
	if err != nil {
		return err
	}
	o := s.uploadOptions(c.put())
	if c.New {
		o.IfNoneMatch = "*"
	}
	_, err = s.pipe(at, o)
	return s.end(err)
}

// uploadOptions returns the options for the upload of a stream.
func (s *session) uploadOptions(put sdk.PutOptions) *sdk.UploadOptions {
	o := &sdk.UploadOptions{PutOptions: put, PartSize: int64(s.transfer.PartSize)}
	if s.bar != nil {
		o.Progress = func(p sdk.Progress) { s.bar.set(progressState{done: p.Done, total: p.Total, final: p.Total > 0}) }
	}
	return o
}

// pipe stores the standard input as an object. The object appears when the input has ended.
func (s *session) pipe(at Address, o *sdk.UploadOptions) (*sdk.Transferred, error) {
	r, err := s.open(at)
	if err != nil {
		return nil, err
	}
	t, err := r.Upload(s.ctx, at.Bucket, at.Key, struct{ io.Reader }{s.Stdin}, o)
	if err != nil {
		return nil, r.explain(err)
	}
	s.tell("stored %s as %s", bytesText(t.Size, true), shown(at.String()))
	s.out.object(actionJSON{Op: "copy", Path: at.name(), From: "-", To: at.String(), Size: t.Size, BytesSent: t.BytesSent})
	return t, nil
}
