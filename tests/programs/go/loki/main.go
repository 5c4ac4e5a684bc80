// Reads a document with Loki's own code, and makes one request through the client that Loki would make of it. Prints the
// settings and how many requests a server saw that answers none for longer than the delay.
package main

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"time"

	"github.com/grafana/dskit/flagext"
	"github.com/grafana/loki/v3/pkg/storage/chunk/client/hedging"
	"github.com/grafana/loki/v3/pkg/util/cfg"
	"github.com/prometheus/client_golang/prometheus"
)

// What stands at these places in Loki's config; the rest of it needs every store that Loki knows.
type config struct {
	Storage struct {
		Hedging hedging.Config `yaml:"hedging"`
	} `yaml:"storage_config"`
}

func (c *config) RegisterFlags(f *flag.FlagSet) {
	c.Storage.Hedging.RegisterFlagsWithPrefix("store.", f)
}

func (c *config) Clone() flagext.Registerer {
	clone := *c
	return &clone
}

func main() {
	var config config
	flags := flag.NewFlagSet("loki", flag.ContinueOnError)
	if err := cfg.Unmarshal(&config, cfg.Defaults(flags), cfg.YAML(os.Args[1], false, true)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	hedging := config.Storage.Hedging
	fmt.Printf("at=%s\nup_to=%d\nmax_per_second=%d\n", hedging.At, hedging.UpTo, hedging.MaxPerSecond)
	requests, err := requestsOfACall(hedging)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("requests=%d\n", requests)
}

func requestsOfACall(hedging hedging.Config) (int64, error) {
	// Time enough for one request more than there may be.
	patience := hedging.At*time.Duration(hedging.UpTo+1) + time.Second
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		time.Sleep(patience)
	}))
	defer server.Close()
	client, err := hedging.ClientWithRegisterer(&http.Client{}, prometheus.NewRegistry())
	if err != nil {
		return 0, err
	}
	answer, err := client.Get(server.URL)
	if err != nil {
		return 0, err
	}
	return requests.Load(), answer.Body.Close()
}
