package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// The namespaces of the acts, which are the names of their repositories too.
const (
	firstNamespace  = "prune-first"
	secondNamespace = "prune-last"
	thirdNamespace  = "roll-back"
)

// act is one time through the story.
type act struct {
	*stage
	namespace string
	// rollout is what the Kustomization says about the order, and timeout how long it waits for health.
	rollout, timeout string
	// oldConfig is the ConfigMap of v1, and deleted the pods of it that were deleted.
	oldConfig string
	deleted   []string
	// deadline is when v2 would be given up.
	deadline time.Time
}

// step is a part of an act that is checked by itself.
type step struct {
	title string
	run   func(context.Context) error
}

// play plays the acts.
func play(ctx context.Context, s *stage) error {
	s.begin("The stage")
	if err := s.open(ctx); err != nil {
		return err
	}
	one := &act{stage: s, namespace: firstNamespace, rollout: "  rollout: {pruneOrder: AfterApply}\n"}
	s.heading("ACT 1: prune right after the apply, which is the order of Flux (here: pruneOrder: AfterApply)")
	if err := s.act(ctx, "1", []step{
		{"v1 goes out", one.releaseFirst},
		{"v2 changes the config, and its image can't be pulled", one.releaseBrokenPruned},
		{"Two pods of v1 are deleted, as when their node is drained", one.deletePods},
		{"Their replacements are lost", one.seeThemLost},
		{"v3 repairs it", one.releaseFixed},
	}); err != nil {
		return err
	}
	two := &act{stage: s, namespace: secondNamespace}
	s.heading("ACT 2: the same again, in the order of holdfast: prune last")
	if err := s.act(ctx, "2", []step{
		{"v1 goes out", two.releaseFirst},
		{"v2 changes the config, and its image can't be pulled", two.releaseBrokenKept},
		{"Two pods of v1 are deleted, as when their node is drained", two.deletePods},
		{"They come back", two.seeThemBack},
		{"What is wrong with v2, and what is still safe?", two.askWhatFails},
		{"Why is the old ConfigMap still there?", two.askWhy},
		{"v3 repairs it: nobody waits for the 10 minutes of v2", two.releaseFixed},
	}); err != nil {
		return err
	}
	three := &act{stage: s, namespace: thirdNamespace, rollout: "  rollout: {onFailure: Rollback}\n", timeout: shortTimeout}
	s.heading("ACT 3: nobody is at the keyboard: onFailure: Rollback")
	return s.act(ctx, "3", []step{
		{"v1 goes out", three.releaseFirst},
		{"v2 changes the config, its image can't be pulled, and nobody is there", three.releaseBrokenAlone},
		{"holdfast brings v1 back, with its config", three.seeItRolledBack},
		{"What happened?", three.askWhatHappened},
		{"v3 goes out as ever", three.releaseFixed},
	})
}

// act plays the steps of an act, up to the first that fails.
func (s *stage) act(ctx context.Context, number string, steps []step) error {
	for i, step := range steps {
		s.begin(fmt.Sprintf("%s.%d  %s", number, i+1, step.title))
		if err := step.run(ctx); err != nil {
			return err
		}
	}
	return nil
}

// push commits a release and returns its revision.
func (a *act) push(r release) (string, error) {
	sha, err := a.git.CommitTree(a.namespace, "main", r.files(), r.version)
	if err != nil {
		return "", err
	}
	a.say("pushed %s as main@%s: image %s, GREETING=%s", r.version, sha[:7], r.image, r.greeting)
	return "main@sha1:" + sha, nil
}

func (a *act) releaseFirst(ctx context.Context) error {
	if err := a.git.CreateRepository(a.namespace); err != nil {
		return err
	}
	revision, err := a.push(first)
	if err != nil {
		return err
	}
	ks := kustomization(a.namespace, a.rollout, a.timeout)
	if err := a.applyManifests(ctx, namespaceAndSource(a.namespace, a.git.URL(a.namespace))+"---\n"+ks); err != nil {
		return err
	}
	_, spec, _ := strings.Cut(ks, "spec:\n")
	a.command("kubectl apply: a GitRepository that follows it, and a Kustomization with", []byte(spec))
	if err := a.await(ctx, "the Kustomization is Ready at v1", func(ctx context.Context) error { return a.ready(ctx, revision) }); err != nil {
		return err
	}
	if a.oldConfig, err = a.config(ctx, first); err != nil {
		return err
	}
	if err := a.awaitRunning(ctx, a.oldConfig); err != nil {
		return err
	}
	return a.show(ctx)
}

func (a *act) awaitRunning(ctx context.Context, config string) error {
	return a.await(ctx, fmt.Sprintf("%d pods run with %s", replicas, config), func(ctx context.Context) error {
		return a.runs(ctx, replicas, config)
	})
}

// show prints the pods and the generated ConfigMaps.
func (a *act) show(ctx context.Context) error {
	return a.kubectl(ctx, "get", "pods,configmaps", "-n", a.namespace, "-l", "app=shop")
}
