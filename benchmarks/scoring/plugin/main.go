// kube-scheduler with TargetLoadPacking as a plugin in its own process, for comparison with the extender.
// `benchmarks.scoring.throughput` builds it in the module of the test control plane, and runs it. The load is asked for
// every 15 seconds, of the watcher that LOAD_WATCHER names, in upstream's format; recent pods are not predicted.
package main

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

const (
	name   = "InProcessLoadPacking"
	target = 40.0
)

type report struct {
	Data struct {
		NodeMetricsMap map[string]struct {
			Metrics []struct {
				Type, Operator string
				Value          float64
			}
		}
	}
}

type plugin struct {
	percent atomic.Pointer[map[string]float64]
}

func (p *plugin) Name() string { return name }

func (p *plugin) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (p *plugin) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (int64, *fwk.Status) {
	node := info.Node()
	mean, known := (*p.percent.Load())[node.Name]
	capacity := float64(node.Status.Capacity.Cpu().MilliValue())
	if !known || capacity == 0 {
		return 0, nil
	}
	used := 0.0
	for i := range pod.Spec.Containers {
		resources := &pod.Spec.Containers[i].Resources
		if limit, limited := resources.Limits[v1.ResourceCPU]; limited {
			used += float64(limit.MilliValue())
		} else {
			used += math.Round(float64(resources.Requests.Cpu().MilliValue()) * 1.5)
		}
	}
	expected := mean + 100*used/capacity
	switch {
	case expected > 100:
		return 0, nil
	case expected > target:
		return int64(math.Round(target * (100 - expected) / (100 - target))), nil
	}
	return int64(math.Round((100-target)*expected/target + target)), nil
}

func (p *plugin) fetch() {
	answer, err := http.Get(os.Getenv("LOAD_WATCHER") + "/watcher")
	if err != nil {
		return
	}
	defer answer.Body.Close()
	var found report
	if json.NewDecoder(answer.Body).Decode(&found) != nil {
		return
	}
	percent := make(map[string]float64, len(found.Data.NodeMetricsMap))
	for node, load := range found.Data.NodeMetricsMap {
		for _, metric := range load.Metrics {
			if metric.Type == "CPU" && metric.Operator == "AVG" {
				percent[node] = metric.Value
			}
		}
	}
	p.percent.Store(&percent)
}

func newPlugin(_ context.Context, _ runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
	own := &plugin{}
	own.percent.Store(&map[string]float64{})
	own.fetch()
	go func() {
		for range time.Tick(15 * time.Second) {
			own.fetch()
		}
	}()
	return own, nil
}

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(name, newPlugin))))
}
