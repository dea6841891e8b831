"""One example for every model of which `kind` says which it is; tests parse them."""

from pydantic import BaseModel

from slack.simulator.scenario.autoscaler_settings import ClusterAutoscaler, Karpenter, NoAutoscaler
from slack.simulator.scenario.distributions import Constant, Exponential, Forever, Lognormal, Points, Sine, Uniform
from slack.simulator.scenario.load import Bursts, DeploymentReplicas, Diurnal, Jobs, Poisson, Replay
from slack.simulator.scenario.slack_kinds import NoSlack, Policies, Proportional, Static

EXAMPLES: dict[type[BaseModel], str] = {
    Constant: "{kind: constant, seconds: 90}",
    Uniform: "{kind: uniform, minSeconds: 300, maxSeconds: 600}",
    Lognormal: "{kind: lognormal, medianSeconds: 75, sigma: 0.25, maxSeconds: 240}",
    Exponential: "{kind: exponential, meanSeconds: 120}",
    Forever: "{kind: forever}",
    Points: "{kind: points, points: [[0, 120], [28800, 300], [72000, 600], [86400, 120]]}",
    Sine: "{kind: sine, mean: 3000, amplitude: 0.6, peakAtSeconds: 72000}",
    Poisson: "{kind: poisson, perMinute: 0.4}",
    Diurnal: "{kind: diurnal, meanPerMinute: 6, amplitude: 0.7, peakAt: 20h}",
    Bursts: "{kind: bursts, size: 12, at: [35m, 55m], withinSeconds: 5}",
    DeploymentReplicas: """
kind: deployment
replicas: 30
hpa:
  minReplicas: 20
  maxReplicas: 200
  targetPerPod: 50
  load: {kind: sine, mean: 3000}
""",
    Jobs: "{kind: jobs, parallelism: 10, every: 30m, firstAt: 20m}",
    Replay: "{kind: replay, rows: [[0, null], [61.5, 300], [62, 280]]}",
    ClusterAutoscaler: "{kind: clusterAutoscaler, expander: leastWaste, scaleDownUnneededTime: 5m}",
    Karpenter: "{kind: karpenter, consolidateAfterSeconds: 60}",
    NoAutoscaler: "{kind: none}",
    NoSlack: "{kind: none}",
    Policies: """
kind: policies
policies:
  - name: default
    spec:
      extraCapacity: {minRate: 0.2}
""",
    Static: "{kind: static, count: 10, requests: {cpu: 500m, memory: 1Gi}}",
    Proportional: "{kind: proportional, coresPerReplica: 16, requests: {cpu: 500m, memory: 1Gi}}",
}
