// SPDX-License-Identifier: MIT OR Apache-2.0

// Asks a scheduler extender as kube-scheduler does, with the protocol's own types, and prints what they hold.
//
// Usage: extender URL PROFILE SLOS NODE... asks for a pod with these annotations, first with names of nodes, as for an
// extender with nodeCacheCapable, then with node objects. A field that the types do not have is an error. Output: a JSON
// line for each form of the question.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extender "k8s.io/kube-scheduler/extender/v1"
)

type line struct {
	Form       string
	Nodes      []string
	Labels     []string
	Failed     extender.FailedNodesMap
	Hopeless   extender.FailedNodesMap
	Priorities extender.HostPriorityList
}

func main() {
	if len(os.Args) < 5 {
		fail(fmt.Errorf("usage: extender URL PROFILE SLOS NODE..."))
	}
	url, profile, slos, names := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	pod := &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "db-0", Namespace: "prod", UID: "0f6f9f6e", Annotations: map[string]string{
			"linnet.io/profile": profile, "linnet.io/capacity-bytes": "1000000000", "linnet.io/slos": slos,
		}},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "db", Image: "db"}}},
	}
	if profile == "" {
		pod.Annotations = nil
	}
	list := &v1.NodeList{}
	for _, name := range names {
		list.Items = append(list.Items, v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "zone of " + name}},
			Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}},
		})
	}
	show("names", url, extender.ExtenderArgs{Pod: pod, NodeNames: &names})
	show("nodes", url, extender.ExtenderArgs{Pod: pod, Nodes: list})
}

func show(form string, url string, question extender.ExtenderArgs) {
	var found extender.ExtenderFilterResult
	ask(url+"/filter", question, &found)
	if found.Error != "" {
		fail(fmt.Errorf("filter: %s", found.Error))
	}
	out := line{Form: form, Failed: found.FailedNodes, Hopeless: found.FailedAndUnresolvableNodes}
	if found.NodeNames != nil {
		out.Nodes = *found.NodeNames
	}
	if found.Nodes != nil {
		for _, node := range found.Nodes.Items {
			out.Nodes = append(out.Nodes, node.Name)
			out.Labels = append(out.Labels, node.Labels["zone"], node.Spec.Taints[0].Key)
		}
	}
	ask(url+"/prioritize", question, &out.Priorities)
	text, err := json.Marshal(out)
	if err != nil {
		fail(err)
	}
	fmt.Println(string(text))
}

func ask(url string, question extender.ExtenderArgs, answer any) {
	body, err := json.Marshal(question)
	if err != nil {
		fail(err)
	}
	response, err := http.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		fail(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		fail(err)
	}
	if response.StatusCode != http.StatusOK {
		fail(fmt.Errorf("%s: %s: %s", url, response.Status, text))
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(answer); err != nil {
		fail(fmt.Errorf("%s: %w in %s", url, err, text))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
