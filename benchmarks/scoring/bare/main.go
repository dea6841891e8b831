// An extender that scores nothing: every node has 0. What the scheduler's pace is with it is what any extender costs:
// the call itself, and batching that is off. It listens on the address that its only argument names.
package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strconv"
)

type priority struct {
	Host  string
	Score int64
}

func prioritize(answer http.ResponseWriter, request *http.Request) {
	var asked struct{ NodeNames []string }
	body, err := io.ReadAll(request.Body)
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	scores := make([]priority, len(asked.NodeNames))
	for place, name := range asked.NodeNames {
		scores[place].Host = name
	}
	text, err := json.Marshal(scores)
	if err != nil {
		http.Error(answer, err.Error(), http.StatusInternalServerError)
		return
	}
	answer.Header().Set("Content-Type", "application/json")
	answer.Header().Set("Content-Length", strconv.Itoa(len(text)))
	answer.Write(text)
}

func main() {
	if len(os.Args) != 2 {
		os.Stderr.WriteString("usage: bare ADDRESS\n")
		os.Exit(2)
	}
	http.HandleFunc("POST /prioritize", prioritize)
	os.Stderr.WriteString(http.ListenAndServe(os.Args[1], nil).Error() + "\n")
	os.Exit(1)
}
