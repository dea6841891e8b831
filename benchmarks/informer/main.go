// Command informer fills client-go's shared informers with a cluster's pods (and nodes) and says what that took.
//
// It is what the users of client-go have: a typed clientset from a kubeconfig, a SharedInformerFactory without resync,
// and a handler that does nothing. With the defaults of client-go 0.36 it speaks protobuf and asks for a WatchList;
// -content-type=json asks for what other clients get, and -field-selector for the pods that are asked of us.
// After the caches are whole it collects garbage, prints one line of JSON, and waits for its input to end with -wait.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// result is what one run took; the sizes are of the whole process.
type result struct {
	Pods           int     `json:"pods"`
	Nodes          int     `json:"nodes"`
	ContentType    string  `json:"contentType"`
	WallSeconds    float64 `json:"wallSeconds"`
	StartSeconds   float64 `json:"startCpuSeconds"`
	CPUSeconds     float64 `json:"cpuSeconds"`
	RSSBytes       int64   `json:"rssBytes"`
	RSSLaterBytes  int64   `json:"rssAfterGcBytes"`
	PeakBytes      int64   `json:"peakBytes"`
	HeapInUseBytes uint64  `json:"heapInUseBytes"`
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	contentType := flag.String("content-type", "default", "json, protobuf, or default: what client-go chooses by itself")
	selector := flag.String("field-selector", "", "of the pods")
	nodes := flag.Bool("nodes", false, "an informer of nodes, too")
	seconds := flag.Duration("timeout", 10*time.Minute, "until the caches must be whole")
	wait := flag.Bool("wait", false, "keep the caches until standard input ends")
	flag.Parse()
	found, err := run(*kubeconfig, *contentType, *selector, *nodes, *seconds)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "informer:", err)
		os.Exit(1)
	}
	if *wait {
		_, _ = io.Copy(io.Discard, os.Stdin)
	}
	runtime.KeepAlive(kept)
}

// kept holds the caches until the process ends, so that no collection takes them while they are measured.
var kept []cache.Store

func run(kubeconfig, contentType, selector string, nodes bool, timeout time.Duration) (*result, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	switch contentType {
	case "default":
	case "json":
		config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	case "protobuf":
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	default:
		return nil, fmt.Errorf("-content-type %q: must be default, json or protobuf", contentType)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	if selector != "" {
		if _, err := fields.ParseSelector(selector); err != nil {
			return nil, fmt.Errorf("-field-selector %q: %w", selector, err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	factory := informers.NewSharedInformerFactoryWithOptions(client, 0)
	podFactory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(
		func(options *metav1.ListOptions) { options.FieldSelector = selector }))
	pods := podFactory.Core().V1().Pods().Informer()
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {}}); err != nil {
		return nil, err
	}
	kept = append(kept, pods.GetStore())
	synced := []cache.InformerSynced{pods.HasSynced}
	if nodes {
		informer := factory.Core().V1().Nodes().Informer()
		kept = append(kept, informer.GetStore())
		synced = append(synced, informer.HasSynced)
	}

	began, startCPU := time.Now(), cpuSeconds()
	podFactory.Start(ctx.Done())
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return nil, fmt.Errorf("the caches were not whole after %s", timeout)
	}
	found := &result{
		ContentType:  contentType,
		WallSeconds:  time.Since(began).Seconds(),
		StartSeconds: startCPU,
		CPUSeconds:   cpuSeconds() - startCPU,
		Pods:         len(pods.GetStore().ListKeys()),
		RSSBytes:     memory("VmRSS"),
	}
	if nodes {
		found.Nodes = len(kept[1].ListKeys())
	}
	if found.Pods == 0 {
		return nil, fmt.Errorf("the server has no pods")
	}
	runtime.GC()
	runtime.GC() // what finalizers held goes with the second
	var statistics runtime.MemStats
	runtime.ReadMemStats(&statistics)
	found.HeapInUseBytes = statistics.HeapInuse
	found.RSSLaterBytes, found.PeakBytes = memory("VmRSS"), memory("VmHWM")
	return found, nil
}

// cpuSeconds is the CPU time of this process so far, user and system, collection of garbage included.
func cpuSeconds() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
}

// memory is a figure of /proc/self/status in bytes; 0 where there is no such file.
func memory(name string) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, name+":"); found {
			kibibytes, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kibibytes << 10
		}
	}
	return 0
}
