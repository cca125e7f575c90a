package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"orcas/admin"
)

type adminLost struct{ adminTarget }

// Help is called by kong.
func (adminLost) Help() string {
	return "With --json, each object is a JSON document on a separate line, with its bucket, key, version (or upload and part), size and block. " +
		"The exit status is 1 if any object is lost."
}

// Run makes the server compare the blocks with the metadata, and prints lost objects as they are found.
func (a *adminLost) Run(ctx context.Context, c *console) error {
	response, err := a.request(ctx, c, http.MethodGet, "/-/admin/lost", nil)
	if err != nil {
		return orEnds(err, "the list is not complete")
	}
	defer response.Body.Close()
	lines := json.NewDecoder(response.Body)
	for {
		var line admin.LostLine
		switch err := lines.Decode(&line); {
		case err != nil && ctx.Err() != nil:
			return errors.New("interrupted: the list is not complete")
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("the connection was closed early: the list is not complete")
		case err != nil:
			return err
		}
		if line.LostObject == nil {
			return a.end(c, &line)
		}
		if err := a.print(c, &line); err != nil {
			return err
		}
	}
}

func (a *adminLost) print(c *console, line *admin.LostLine) error {
	if a.JSON {
		return json.NewEncoder(c.stdout).Encode(line)
	}
	o := line.LostObject
	_, err := fmt.Fprintf(c.stdout, "%s: %d bytes, block %s\n", o.ObjectName, o.Size, o.Block)
	return err
}

// end prints the total.
func (a *adminLost) end(c *console, line *admin.LostLine) error {
	sum := line.LostSum
	switch {
	case line.Error != "":
		return fmt.Errorf("the list is not complete: %s", line.Error)
	case sum == nil:
		return errors.New("the list is not complete: the last line of the response has no totals")
	case sum.Objects == 0 && sum.MissingBlocks == 0:
		if !a.JSON {
			fmt.Fprintln(c.stdout, "no block is missing")
		}
		return nil
	case sum.Objects == 0:
		return fmt.Errorf("%d blocks are missing, but no object needs them; reclaim will remove them from the metadata", sum.MissingBlocks)
	}
	return fmt.Errorf("%d objects (%s) are lost: their content is in %d missing blocks", sum.Objects, size(sum.Bytes), sum.MissingBlocks)
}
