package vfs

import (
	"context"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/codec"
)

// Encryption says how content is encrypted where it is stored. The zero value: as its bucket says.
type Encryption struct {
	Store    bool       // with data keys that the newest master key wraps
	Customer *codec.Key // with data keys that this key wraps, which its owner brings with each request and nobody keeps
}

// EncryptsBucket says whether new content of a bucket is encrypted where nobody says anything else.
func (f *FS) EncryptsBucket(b *core.BucketInfo) bool { return f.encryptAll || b.Encrypted }

// Encrypt says how the content is to be encrypted, before ReadFrom. Unasked, it is as its bucket says. NoKey: there is no master key.
func (c *Content) Encrypt(ctx context.Context, e Encryption) (err error) {
	switch {
	case e.Customer != nil:
		c.codec.KeyID, c.wrapper = codec.CustomerKeyID, e.Customer
		c.scope = 0 // shared with nobody: who has no key, or another one, has no use for it
	case e.Store && c.wrapper == nil:
		c.codec.KeyID, c.wrapper, err = c.fs.masterKey(ctx)
	default:
		return nil
	}
	if c.large != nil && err == nil {
		c.dataKey = c.seal(c.large.ID())
	}
	return err
}

// seal makes the data key of the content and returns it wrapped; nil where the content is not encrypted.
func (c *Content) seal(id core.DataID) (wrapped []byte) {
	if c.wrapper != nil {
		c.codec.Sealer, wrapped = c.wrapper.NewDataKey(c.codec.KeyID, uint64(id))
	}
	return wrapped
}

// Unlock gives the key of the customer, before Range, to read content that was encrypted with it.
func (o *Object) Unlock(customer *codec.Key) { o.customer = customer }

// opener returns what decrypts a content; nil where it is not encrypted. NoKey: it takes another key than the customer's.
func (f *FS) opener(d *core.DataInfo, customer *codec.Key) (codec.Sealer, error) {
	const op = "vfs.opener"
	var key *codec.Key
	switch d.KeyID {
	case 0:
		return nil, nil
	case codec.CustomerKeyID:
		if key = customer; key == nil {
			return nil, core.E(op, core.NoKey, fmt.Errorf("data %d is encrypted with a key that its owner has", d.ID))
		}
	default:
		if key = f.master.keys.Get(d.KeyID); key == nil {
			return nil, core.E(op, core.Internal, fmt.Errorf("data %d is encrypted under master key %d, and that key is missing", d.ID, d.KeyID))
		}
	}
	data, err := key.DataKey(d.KeyID, uint64(d.ID), d.DataKey)
	switch {
	case err == nil:
		return data, nil
	case d.KeyID == codec.CustomerKeyID && errors.Is(err, codec.ErrWrongKey):
		return nil, core.E(op, core.NoKey, fmt.Errorf("data %d: %w", d.ID, err))
	}
	return nil, core.E(op, core.Damaged, fmt.Errorf("the data key of data %d: %w", d.ID, err))
}
