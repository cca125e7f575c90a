package server

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"time"

	"orcas/internal/durable"
)

// MetricsFile is the name of the file with the values that the metrics had when the server was last stopped, in the data
// directory and in the text format of Prometheus.
const MetricsFile = "metrics.prom"

// metricsFileTimeout is how long a shutdown waits for MetricsFile; finalSurveyTimeout is the part of it for the survey.
const (
	metricsFileTimeout = 5 * time.Second
	finalSurveyTimeout = 3 * time.Second
)

// errMetricsFile is returned if a drive does not respond in time.
var errMetricsFile = errors.New("the file was not written in time")

// save writes MetricsFile. The last values are otherwise lost, because nobody scrapes them. It is called after the
// last request. A failure is a line in the log, and does not delay the shutdown for long.
func (s readings) save() {
	path := filepath.Join(s.config.Data, MetricsFile)
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), finalSurveyTimeout)
		defer cancel()
		_ = s.survey.Final(ctx) // after an error, the last figures are saved
		var text bytes.Buffer
		err := s.counts.registry.Write(&text)
		if err == nil {
			var steps durable.Steps
			err = steps.Replace(path, text.Bytes())
		}
		done <- err
	}()
	err := errMetricsFile
	select {
	case err = <-done:
	case <-time.After(metricsFileTimeout):
	}
	if err != nil {
		s.log.Warn("the final values of the metrics could not be saved", "file", path, "err", err)
	}
}
