module floorkeeper.io/controlplane/policy-report

go 1.26.0

require sigs.k8s.io/wg-policy-prototypes v0.0.0-20230505033312-51c21979086a
