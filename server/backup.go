package server

import (
	"context"

	"orcas/backup"
)

// BackupFiles returns the names of the files of a data directory that a backup includes, if they exist.
func BackupFiles() []string { return []string{CredentialsFile, IdentityKeyFile} }

// backups makes and lists backups for the admin API. See admin.Store.
type backups struct{ *Server }

// write writes a backup to a directory on this machine.
func (s backups) write(ctx context.Context, dir string, keep int, link bool) (any, error) {
	return backup.Backup(ctx, backup.Options{
		Meta: s.meta, Blocks: s.blocks, DataDir: s.config.Data, SmallFiles: BackupFiles(), Dir: dir, Keep: keep, Link: link, Now: s.config.Now,
		Pause: func(ctx context.Context, fn func() error) error {
			return s.reclaimer.Pause(ctx, func() error {
				if err := s.writer.Settle(ctx); err != nil { // back up durable changes only
					return err
				}
				return fn()
			})
		},
	})
}

// backupList is the response to GET /-/admin/backup.
type backupList struct {
	Backups []backup.Listed `json:"backups"`
}

// list returns the backups in a directory on this machine.
func (backups) list(dir string) (any, error) {
	list, err := backup.List(dir)
	if err != nil {
		return nil, err
	}
	return &backupList{list}, nil
}
