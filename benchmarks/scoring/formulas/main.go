// The formulas of the scheduler plugins, node by node, as a plugin in the scheduler computes them: what
// benchmarks.scoring compares with. Reads a cluster as JSON on stdin, writes times and scores as JSON on stdout.
package main

import (
	"encoding/json"
	"math"
	"os"
	"sort"
	"time"
)

type cluster struct {
	Runs   int     `json:"runs"`
	Rows   []int   `json:"rows"`
	Target float64 `json:"target"`
	Pod    pod     `json:"pod"`
	Nodes  []node  `json:"nodes"`
}

type pod struct {
	Requests  [2]float64 `json:"requests"`
	Limits    [2]float64 `json:"limits"`
	Predicted float64    `json:"predicted"`
}

type node struct {
	Capacity  [2]float64 `json:"capacity"`
	Requested [2]float64 `json:"requested"`
	Limited   [2]float64 `json:"limited"`
	Mean      [2]float64 `json:"mean"`
	Deviation [2]float64 `json:"deviation"`
	Missing   [2]float64 `json:"missing"`
	K1        float64    `json:"k1"`
	K2        float64    `json:"k2"`
}

func clamp(value float64) float64 { return math.Max(0, math.Min(1, value)) }

func targetLoadPacking(n *node, p *pod, target float64) float64 {
	used := n.Mean[0]/100*n.Capacity[0] + p.Predicted + n.Missing[0]
	utilization := 100 * used / n.Capacity[0]
	if utilization > 100 {
		return 0
	}
	if utilization > target {
		return math.Round(target * (100 - utilization) / (100 - target))
	}
	return math.Round((100-target)*utilization/target + target)
}

func loadVariation(n *node, p *pod) float64 {
	score := 100.0
	for r := 0; r < 2; r++ {
		mu := clamp(n.Mean[r]/100 + (n.Missing[r]+p.Requests[r])/n.Capacity[r])
		risk := (mu + clamp(n.Deviation[r]/100)) / 2
		score = math.Min(score, (1-risk)*100)
	}
	return math.Round(score)
}

func fraction(a, b, x float64) float64 {
	const tiny = 1e-300
	away := func(value float64) float64 {
		if math.Abs(value) < tiny {
			return tiny
		}
		return value
	}
	c, d := 1.0, 1/away(1-(a+b)*x/(a+1))
	value := d
	for step := 1.0; step < 500; step++ {
		even := step * (b - step) * x / ((a + 2*step - 1) * (a + 2*step))
		d = 1 / away(1+even*d)
		c = away(1 + even/c)
		value *= c * d
		odd := -(a + step) * (a + b + step) * x / ((a + 2*step) * (a + 2*step + 1))
		d = 1 / away(1+odd*d)
		c = away(1 + odd/c)
		value *= c * d
		if math.Abs(c*d-1) < 1e-14 {
			break
		}
	}
	return value
}

func betaCumulative(a, b, x float64) float64 {
	if x <= 0 {
		return 0
	}
	if x >= 1 {
		return 1
	}
	turned := x > (a+1)/(a+b+2)
	if turned {
		a, b, x = b, a, 1-x
	}
	both, _ := math.Lgamma(a + b)
	one, _ := math.Lgamma(a)
	two, _ := math.Lgamma(b)
	tail := math.Exp(both-one-two+a*math.Log(x)+b*math.Log1p(-x)) / a * fraction(a, b, x)
	if turned {
		return 1 - tail
	}
	return tail
}

func within(mu, sigma, threshold float64) float64 {
	if mu > 0 && mu < 1 && sigma > 0 {
		k := mu*(1-mu)/(sigma*sigma) - 1
		return betaCumulative(mu*k, (1-mu)*k, threshold)
	}
	if mu <= 0 || mu <= threshold {
		return 1
	}
	return 0
}

func lowRisk(n *node, p *pod) float64 {
	worst := 0.0
	for r := 0; r < 2; r++ {
		size := n.Capacity[r]
		request := math.Min(n.Requested[r]+p.Requests[r], size)
		limit := n.Limited[r] + p.Limits[r]
		limitRisk := 0.0
		if limit > size {
			limitRisk = (limit - size) / (limit - request)
		}
		mu := clamp(n.Mean[r]/100 + n.Missing[r]/size)
		sigma := math.Min(clamp(n.Deviation[r]/100)*math.Sqrt(5), math.Sqrt(mu*(1-mu)*0.99))
		probability := within(mu, sigma, clamp(n.Requested[r]/size))
		if n.Limited[r] < size && n.Requested[r] <= n.Limited[r] {
			if n.Limited[r] == 0 {
				probability = 1
			} else if below := within(mu, sigma, n.Limited[r]/size); below > 0 {
				probability = clamp(probability / below)
			} else {
				probability = 1
			}
		}
		worst = math.Max(worst, 0.5*limitRisk+0.5*(1-probability))
	}
	return math.Round((1 - worst) * 100)
}

func peaks(nodes []node, rows []int, p *pod, scores []float64) {
	least, most := math.Inf(1), math.Inf(-1)
	for place, row := range rows {
		n := &nodes[row]
		before := n.Mean[0] + 100*n.Missing[0]/n.Capacity[0]
		after := before + 100*p.Requests[0]/n.Capacity[0]
		scores[place] = math.NaN()
		if after <= 100 {
			scores[place] = n.K1 * (math.Exp(n.K2*after) - math.Exp(n.K2*before))
			least, most = math.Min(least, scores[place]), math.Max(most, scores[place])
		}
	}
	for place, jump := range scores {
		if math.IsNaN(jump) {
			scores[place] = 0
		} else if most > least {
			scores[place] = math.Round(100 - 100*(jump-least)/(most-least))
		} else {
			scores[place] = 100
		}
	}
}

func main() {
	var c cluster
	if err := json.NewDecoder(os.Stdin).Decode(&c); err != nil {
		panic(err)
	}
	size := len(c.Rows)
	scores := [4][]float64{}
	for algorithm := range scores {
		scores[algorithm] = make([]float64, size)
	}
	micros := make([]float64, c.Runs)
	for run := range micros {
		began := time.Now()
		for place, row := range c.Rows {
			n := &c.Nodes[row]
			scores[0][place] = targetLoadPacking(n, &c.Pod, c.Target)
			scores[1][place] = loadVariation(n, &c.Pod)
			scores[2][place] = lowRisk(n, &c.Pod)
		}
		peaks(c.Nodes, c.Rows, &c.Pod, scores[3])
		micros[run] = float64(time.Since(began).Nanoseconds()) / 1000
	}
	sort.Float64s(micros)
	json.NewEncoder(os.Stdout).Encode(map[string]any{"micros": micros, "scores": scores})
}
