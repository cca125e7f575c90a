package content

import (
	"context"
	"fmt"
	"sync"
	"time"

	"orcas/core"
)

// spaceAge is how long a measurement of the free space remains valid.
const spaceAge = 250 * time.Millisecond

// space rejects content that would use the reserve, so that deletes, reclaim and checkpoints have enough space.
//
// One process: it does not see writes that other processes on the same drive are about to make.
type space struct {
	spacer  core.Spacer // nil if the block store has none
	reserve func(total int64) int64
	now     func() time.Time

	mu   sync.Mutex // guards at and left
	at   time.Time
	left int64 // bytes above the reserve
}

// check returns NoSpace unless size bytes fit above the reserve.
func (s *space) check(ctx context.Context, size int64) error {
	if s.spacer == nil || s.reserve == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.at) > spaceAge || now.Before(s.at) || s.left < size {
		free, total, err := s.spacer.Space(ctx)
		if err != nil {
			return err
		}
		s.at, s.left = now, free-s.reserve(total)
	}
	if s.left < size {
		err := fmt.Errorf("%d bytes are free above the reserve, but %d are needed", max(s.left, 0), size)
		return core.E("content.space", core.NoSpace, err)
	}
	return nil
}
