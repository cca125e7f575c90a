package sdk

import "context"

// Credentials provides the keys for signatures. Get is called for every request, concurrently, so it should return
// cached keys; temporary keys are replaced when it returns other ones. An error ends the operation.
type Credentials interface {
	Get(ctx context.Context) (Keys, error)
}

// Keys are an access key with its secret. Keys without an access key make requests anonymous.
type Keys struct {
	AccessKey, SecretKey string
	SessionToken         string // of temporary keys, or ""
}

// Get returns k, so Keys are Credentials.
func (k Keys) Get(context.Context) (Keys, error) { return k, nil }

// Static returns credentials that never change.
func Static(access, secret string) Credentials { return Keys{AccessKey: access, SecretKey: secret} }
