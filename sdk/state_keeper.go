package sdk

import (
	"slices"
	"sync"
	"time"
)

// stateKeeper keeps the state of a transfer in its file. A nil stateKeeper keeps nothing.
type stateKeeper struct {
	path string

	mu     sync.Mutex // guards the fields below
	state  *transferState
	saved  time.Time
	saving bool
}

func newStateKeeper(path string, s *transferState) *stateKeeper {
	return &stateKeeper{path: path, state: s, saved: time.Now()}
}

// add records a part, and writes the state from time to time. A range of a download need not be on the drive: its sum is
// compared when the download is resumed. So an error of writing costs only what has to be read again.
func (k *stateKeeper) add(p statePart) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.add(p)
	if k.saving || time.Since(k.saved) < stateInterval {
		return
	}
	now := *k.state
	now.Parts = slices.Clone(now.Parts)
	k.saving = true
	k.mu.Unlock()
	_ = now.save(k.path)
	k.mu.Lock()
	k.saving, k.saved = false, time.Now()
}

func (k *stateKeeper) save() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state.save(k.path)
}
