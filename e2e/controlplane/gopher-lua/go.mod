// The Lua that Argo CD runs health rules with. No Go code of ours: `python -m e2e.harness.build` builds it.
module resource-slack.test/controlplane/gopher-lua

go 1.26.0

tool github.com/yuin/gopher-lua/cmd/glua

require (
	github.com/chzyer/readline v0.0.0-20180603132655-2972be24d48e // indirect
	github.com/yuin/gopher-lua v1.1.2 // indirect
	golang.org/x/sys v0.0.0-20190204203706-41f3e6584952 // indirect
)
