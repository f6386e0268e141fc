module floorkeeper.io/controlplane/argo-rollouts

go 1.26.0

require github.com/argoproj/argo-rollouts v1.8.5
