package simulation

import (
	"testing"
	"time"
)

func TestImageTag(t *testing.T) {
	for image, want := range map[string]string{
		"app":                         "latest",
		"app:crash":                   "crash",
		"registry:5000/app":           "latest",
		"registry:5000/team/app:v1":   "v1",
		"app:exit0@sha256:0123456789": "exit0",
	} {
		if got := imageTag(image); got != want {
			t.Errorf("imageTag(%q) = %q, want %q", image, got, want)
		}
	}
}

func TestContainerBehavior(t *testing.T) {
	type annotations = map[string]string
	for name, test := range map[string]struct {
		image       string
		as          role
		annotations annotations
		want        behavior
		wantErr     bool
	}{
		"runs until stopped":            {image: "app:v1"},
		"crash":                         {image: "app:crash", want: behavior{exits: true, exitCode: 1}},
		"exit0":                         {image: "app:exit0", want: behavior{exits: true}},
		"exit0 later":                   {image: "app:exit0", annotations: annotations{AnnotationExitAfter: "3s"}, want: behavior{exits: true, exitAfter: 3 * time.Second}},
		"crash later keeps its code":    {image: "app:crash", annotations: annotations{AnnotationExitAfter: "1m"}, want: behavior{exits: true, exitAfter: time.Minute, exitCode: 1}},
		"any image with a code":         {image: "app:v1", annotations: annotations{AnnotationExitAfter: "1s", AnnotationExitCode: "7"}, want: behavior{exits: true, exitAfter: time.Second, exitCode: 7}},
		"a code alone ends nothing":     {image: "app:v1", annotations: annotations{AnnotationExitCode: "7"}, want: behavior{exitCode: 7}},
		"slow to stop":                  {image: "app:v1", annotations: annotations{AnnotationStopAfter: "10s"}, want: behavior{stopAfter: 10 * time.Second}},
		"init ends well":                {image: "app:v1", as: roleInit, want: behavior{exits: true}},
		"init crashes":                  {image: "app:crash", as: roleInit, want: behavior{exits: true, exitCode: 1}},
		"init is not for the main exit": {image: "app:v1", as: roleInit, annotations: annotations{AnnotationExitAfter: "1h", AnnotationExitCode: "3"}, want: behavior{exits: true}},
		"bad duration":                  {image: "app:v1", annotations: annotations{AnnotationExitAfter: "5"}, wantErr: true},
		"negative duration":             {image: "app:v1", annotations: annotations{AnnotationStopAfter: "-5s"}, wantErr: true},
		"bad code":                      {image: "app:v1", annotations: annotations{AnnotationExitCode: "256"}, wantErr: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := containerBehavior(test.image, test.as, test.annotations)
			if (err != nil) != test.wantErr {
				t.Fatalf("error = %v, want one: %t", err, test.wantErr)
			}
			if got != test.want {
				t.Errorf("behavior = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestReadyIn(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		running     time.Duration
		want        time.Duration
		wantOK      bool
	}{
		"at once":        {wantOK: true},
		"unready":        {annotations: map[string]string{AnnotationUnready: "true"}},
		"not unready":    {annotations: map[string]string{AnnotationUnready: "false"}, wantOK: true},
		"not yet":        {annotations: map[string]string{AnnotationReadyAfter: "5s"}, running: 2 * time.Second, want: 3 * time.Second, wantOK: true},
		"long since":     {annotations: map[string]string{AnnotationReadyAfter: "5s"}, running: time.Minute, wantOK: true},
		"misspelt never": {annotations: map[string]string{AnnotationReadyAfter: "soon"}, running: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			wait, ok := readyIn(test.annotations, test.running)
			if wait != test.want || ok != test.wantOK {
				t.Errorf("readyIn = %v, %t, want %v, %t", wait, ok, test.want, test.wantOK)
			}
		})
	}
}
