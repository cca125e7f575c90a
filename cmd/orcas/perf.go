package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"orcas/perf"
)

// perfCommand loads servers and measures them.
type perfCommand struct {
	NullServer nullServerCommand `cmd:"" help:"Serve S3 that stores nothing: the ceiling of an HTTP front."`
	Core       perfCoreCommand   `cmd:"" help:"Measure the core scenarios beside the null server and the disk, in turns."`
}

type nullServerCommand struct {
	Address string `default:"127.0.0.1:9009" placeholder:"HOST:PORT" help:"Where to listen (default ${default})."`
}

// Run serves until it is killed. The keys come from ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY.
func (c *nullServerCommand) Run(to *console) error {
	access, secret := os.Getenv("ORCAS_ROOT_ACCESS_KEY"), os.Getenv("ORCAS_ROOT_SECRET_KEY")
	if access == "" || secret == "" {
		return fmt.Errorf("ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY must be set")
	}
	l, err := net.Listen("tcp", c.Address)
	if err != nil {
		return err
	}
	fmt.Fprintf(to.stdout, "null server at http://%s: it stores nothing\n", l.Addr())
	s := &http.Server{Handler: perf.NewNullServer(access, secret, "us-east-1"), ReadHeaderTimeout: time.Minute}
	return s.Serve(l)
}

type perfCoreCommand struct {
	Dir   string        `default:"." placeholder:"DIR" help:"Where to put the data: on the file system to be measured."`
	Turn  time.Duration `default:"5s" help:"How long one side is loaded at a time."`
	Turns int           `default:"3" help:"How many times each side has its turn; the median counts."`
	Keys  int           `default:"100000" help:"Keys of the cold GET and the listings."`
	Only  []string      `placeholder:"NAME" help:"Only these: put, packing, alone, get, large, list, footprint."`
	JSON  string        `name:"json" placeholder:"FILE" help:"Write the rows to a file."`
}

// Run measures and prints.
func (c *perfCoreCommand) Run(to *console) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	rows, err := perf.RunCore(perf.CoreOptions{
		Program: program, Dir: c.Dir, Turn: c.Turn, Turns: c.Turns, Only: c.Only, Keys: c.Keys, Log: to.stdout,
	})
	if err != nil {
		return err
	}
	if c.JSON == "" {
		return nil
	}
	f, err := os.Create(c.JSON)
	if err != nil {
		return err
	}
	defer f.Close()
	return perf.WriteRows(f, rows)
}
