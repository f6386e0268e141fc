module floorkeeper.io/controlplane/openkruise

go 1.26.0

require github.com/openkruise/kruise v1.8.0
