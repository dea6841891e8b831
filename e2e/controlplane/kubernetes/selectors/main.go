// Command selectors prints what kube-scheduler's own code decides about pairs of pods.
//
// Input: a JSON document per line, {"pod": Pod, "other": Pod, "namespaces": {name: labels}}.
// Output: a hexadecimal digit per line of input, without line breaks:
//
//	1  the pod's first required (anti-)affinity term matches the other pod
//	2  that term matches the pod itself
//	4  the pod's hard spread constraint counts the other pod
//	8  that constraint counts the other pod, and the pod itself
//
// The API server's own code first prepares each pod, because it writes matchLabelKeys into selectors.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	api "k8s.io/kubernetes/pkg/apis/core"
	apiv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

type pair struct {
	Pod        v1.Pod                `json:"pod"`
	Other      v1.Pod                `json:"other"`
	Namespaces map[string]labels.Set `json:"namespaces"`
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func prepared(given *v1.Pod) *v1.Pod {
	internal, out := &api.Pod{}, &v1.Pod{}
	if err := apiv1.Convert_v1_Pod_To_core_Pod(given, internal, nil); err != nil {
		panic(err)
	}
	ctx := genericapirequest.WithNamespace(context.Background(), given.Namespace)
	pod.Strategy.PrepareForCreate(ctx, internal)
	if err := apiv1.Convert_core_Pod_To_v1_Pod(internal, out, nil); err != nil {
		panic(err)
	}
	return out
}

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
}

// refused says whether the spread plugin keeps the pod from a node with so many of the other pod; another node is empty.
func refused(ctx context.Context, subject, other *v1.Pod, copies int) bool {
	var there []*v1.Pod
	for number := range copies {
		one := other.DeepCopy()
		one.Name, one.UID = fmt.Sprintf("other-%d", number), metav1.ObjectMeta{}.UID
		one.Spec.NodeName = "full"
		there = append(there, one)
	}
	snapshot := cache.NewSnapshot(there, []*v1.Node{node("full"), node("empty")})
	handle := must(frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(snapshot),
		frameworkruntime.WithInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0))))
	arguments := &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting}
	plugin := must(podtopologyspread.New(ctx, arguments, handle, feature.Features{
		EnableNodeInclusionPolicyInPodTopologySpread: true,
		EnableMatchLabelKeysInPodTopologySpread:      true,
	})).(*podtopologyspread.PodTopologySpread)
	state := framework.NewCycleState()
	infos := must(snapshot.NodeInfos().List())
	if _, status := plugin.PreFilter(ctx, state, subject, infos); status.IsSkip() {
		return false
	} else if !status.IsSuccess() {
		panic(status.AsError())
	}
	status := plugin.Filter(ctx, state, subject, must(snapshot.NodeInfos().Get("full")))
	if status.Code() == fwk.Error {
		panic(status.AsError())
	}
	return !status.IsSuccess()
}

func main() {
	metrics.Register()
	ctx := context.Background()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var given pair
		if err := json.Unmarshal(lines.Bytes(), &given); err != nil {
			panic(err)
		}
		subject, other := prepared(&given.Pod), prepared(&given.Other)
		info := must(framework.NewPodInfo(subject))
		answer := 0
		for _, term := range append(info.GetRequiredAffinityTerms(), info.GetRequiredAntiAffinityTerms()...) {
			if term.Matches(other, given.Namespaces[other.Namespace]) {
				answer |= 1
			}
			if term.Matches(subject, given.Namespaces[subject.Namespace]) {
				answer |= 2
			}
		}
		if refused(ctx, subject, other, 2) {
			answer |= 4
		}
		if refused(ctx, subject, other, 1) {
			answer |= 8
		}
		fmt.Printf("%x", answer)
	}
	if err := lines.Err(); err != nil {
		panic(err)
	}
}
