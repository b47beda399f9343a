package courier

import (
	"context"
	"math/rand"
	"time"
)

// WithBackoff calls again after a failure, waiting twice as long each time, with jitter, until attempts run out.
func WithBackoff(ctx context.Context, attempts int, call func() error) error {
	wait := 100 * time.Millisecond
	var err error
	for i := 0; i < attempts; i++ {
		if err = call(); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait + time.Duration(rand.Int63n(int64(wait)))):
			wait *= 2
		}
	}
	return err
}
