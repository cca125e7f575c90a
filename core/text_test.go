package core

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	missing := &fs.PathError{Op: "open", Path: "/d/LOCK", Err: fs.ErrPermission}
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("plain"), "plain"},
		{E("sqlite.Bucket", NoSuchBucket, E("sqlite.Bucket", NoSuchBucket, nil)), "no such bucket"},
		{E("disk.Open", Internal, missing), "open /d/LOCK: permission denied"},
		{fmt.Errorf("/d: %w", E("disk.Open", Unsupported, E("disk.Open", Unsupported, errors.New("format 2")))), "/d: format 2"},
		{E("vfs.Open", Internal, E("disk.Read", Damaged, errors.New("checksum"))), "damaged: checksum"},
		{E("a", Damaged, E("b", Damaged, errors.New("checksum"))), "damaged: checksum"},
		{E("a", NoSpace, fmt.Errorf("block 3: %w", E("b", Damaged, nil))), "no space: block 3: damaged"},
		{errors.Join(E("a", Busy, errors.New("in use")), fmt.Errorf("then: %w", E("b", Internal, errors.New("EIO")))), "in use; then: EIO"},
		{fmt.Errorf("the text of the cause is not shown%.0w", E("a", Busy, errors.New("in use"))), "the text of the cause is not shown"},
	} {
		require.Equal(t, c.want, Text(c.err))
	}
}
