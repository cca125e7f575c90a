package main

import (
	"context"
	"fmt"
	"time"
)

// The intervals at which progress is printed: on a terminal, where each line replaces the previous one, and to a file
// or pipe.
const (
	watchTerminal  = time.Second
	watchElsewhere = 15 * time.Second
)

// watch prints progress to standard error until the returned function is called. The function line asks the server for
// the progress and returns the line to print, or "" to print nothing.
func (t *adminTarget) watch(ctx context.Context, c *console, line func(ctx context.Context, quiet *adminTarget) string) func() {
	every, terminal := watchElsewhere, isTerminal(c.stderr)
	if terminal {
		every = watchTerminal
	}
	return t.watchEvery(ctx, c, every, terminal, line)
}

func (t *adminTarget) watchEvery(ctx context.Context, c *console, every time.Duration, terminal bool, line func(ctx context.Context, quiet *adminTarget) string) func() {
	ctx, cancel := context.WithCancel(ctx)
	quiet := *t
	quiet.JSON = false
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-ctx.Done():
				if shown {
					fmt.Fprint(c.stderr, "\r\x1b[K") // clear the line
				}
				return
			case <-tick.C:
			}
			switch text := line(ctx, &quiet); {
			case text == "":
			case terminal:
				fmt.Fprintf(c.stderr, "\r\x1b[K%s", text)
				shown = true
			default:
				fmt.Fprintln(c.stderr, text)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
