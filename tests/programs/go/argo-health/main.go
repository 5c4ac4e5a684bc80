// Runs a health script of Argo CD on an object, as Argo CD does: in its Lua, with the libraries that it opens and a second to
// answer. Reads the object as JSON from standard input, and prints what the script returns.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	lua "github.com/yuin/gopher-lua"
	luajson "layeh.com/gopher-json"
)

// The words that Argo CD knows; anything else it takes for Unknown.
var known = []string{"Healthy", "Progressing", "Degraded", "Suspended", "Missing", "Unknown"}

type health struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	script, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var object any
	if err := json.NewDecoder(os.Stdin).Decode(&object); err != nil {
		return err
	}
	found, err := evaluate(string(script), object)
	if err != nil {
		return err
	}
	if !slices.Contains(known, found.Status) {
		return fmt.Errorf("%q is no health that Argo CD knows", found.Status)
	}
	return json.NewEncoder(os.Stdout).Encode(found)
}

func evaluate(script string, object any) (health, error) {
	var found health
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	// Argo CD opens a part of `os` as well; a script that needs the time is none of ours.
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		call := lua.P{Fn: state.NewFunction(open), NRet: 0, Protect: true}
		if err := state.CallByParam(call, lua.LString(name)); err != nil {
			return found, err
		}
	}
	deadline, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	state.SetContext(deadline)
	state.SetGlobal("obj", luajson.DecodeValue(state, object))
	if err := state.DoString(script); err != nil {
		return found, err
	}
	returned := state.Get(-1)
	if returned.Type() != lua.LTTable {
		return found, fmt.Errorf("the script returned a %s, not a table", returned.Type())
	}
	text, err := luajson.Encode(returned)
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(text, &found)
}
