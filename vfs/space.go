package vfs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"orcas/core"
)

// spaceAge is how long a reading of the free space is believed.
const spaceAge = 250 * time.Millisecond

// space refuses content while less than the reserve is free, so that deletes, reclaim and checkpoints have room.
type space struct {
	blocks  core.Blocks
	reserve func(total int64) int64
	now     func() time.Time

	mu   sync.Mutex // guards at and left
	at   time.Time
	left int64 // bytes above the reserve
}

// check says NoSpace unless size bytes fit above the reserve.
func (s *space) check(ctx context.Context, size int64) error {
	spacer, ok := s.blocks.(core.Spacer)
	if !ok || s.reserve == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.at) > spaceAge || now.Before(s.at) || s.left < size {
		free, total, err := spacer.Space(ctx)
		if err != nil {
			return err
		}
		s.at, s.left = now, free-s.reserve(total)
	}
	if s.left < size {
		return core.E("vfs.space", core.NoSpace, fmt.Errorf("%d bytes above the reserve, %d wanted", max(s.left, 0), size))
	}
	return nil
}
