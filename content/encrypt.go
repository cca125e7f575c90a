package content

import (
	"context"
	"errors"
	"fmt"

	"orcas/core"
	"orcas/core/codec"
)

// Encryption selects how content is encrypted. The zero value selects the bucket's setting.
type Encryption struct {
	Store    bool       // wrap the data keys with the newest master key
	Customer *codec.Key // wrap the data keys with this key, which clients send with each request; it is not stored
}

// EncryptsBucket reports whether new content of a bucket is encrypted by default.
func (e *Engine) EncryptsBucket(b *core.BucketInfo) bool { return e.encryptAll || b.Encrypted }

// Encrypt selects the encryption of the content. It must be called before ReadFrom; if it is not called, the bucket's
// setting applies. It returns NoKey if a master key is needed but not configured.
func (c *Content) Encrypt(ctx context.Context, enc Encryption) (err error) {
	switch {
	case enc.Customer != nil:
		c.codec.KeyID, c.wrapper = codec.CustomerKeyID, enc.Customer
		c.scope = 0 // do not deduplicate: this content cannot be read without the customer key
	case enc.Store && c.wrapper == nil:
		c.codec.KeyID, c.wrapper, err = c.engine.master.newest(ctx)
	default:
		return nil
	}
	if c.large != nil && err == nil {
		c.dataKey = c.newDataKey(c.large.ID())
	}
	return err
}

// newDataKey generates a data key, sets the encoder to encrypt with it, and returns the wrapped key. If the content is
// not encrypted, it does nothing and returns nil.
func (c *Content) newDataKey(id core.DataID) (wrapped []byte) {
	if c.wrapper != nil {
		c.codec.Sealer, wrapped = c.wrapper.NewDataKey(c.codec.KeyID, uint64(id))
	}
	return wrapped
}

// opener returns the Sealer that decrypts content d, or nil if d is not encrypted. It returns NoKey if the customer key
// is missing or wrong.
func (e *Engine) opener(d *core.DataInfo, customer *codec.Key) (codec.Sealer, error) {
	const op = "content.opener"
	var key *codec.Key
	switch d.KeyID {
	case 0:
		return nil, nil
	case codec.CustomerKeyID:
		if key = customer; key == nil {
			return nil, core.E(op, core.NoKey, fmt.Errorf("content %d is encrypted with a customer key: "+
				"the request must have that key", d.ID))
		}
	default:
		if key = e.master.keys.Get(d.KeyID); key == nil {
			return nil, core.E(op, core.Internal, missingKey(fmt.Sprintf("content %d", d.ID), d.KeyID))
		}
	}
	data, err := key.DataKey(d.KeyID, uint64(d.ID), d.DataKey)
	switch {
	case err == nil:
		return data, nil
	case d.KeyID == codec.CustomerKeyID && errors.Is(err, codec.ErrWrongKey):
		return nil, core.E(op, core.NoKey, fmt.Errorf("content %d: %w", d.ID, err))
	}
	return nil, core.E(op, core.Damaged, fmt.Errorf("cannot unwrap the data key of content %d: %w", d.ID, err))
}

// missingKey returns the error for an object that is encrypted under a master key that this process does not have.
func missingKey(object string, id uint32) error {
	return fmt.Errorf("%s is encrypted under master key %d, which is not configured", object, id)
}
