"""The admission door: AdmissionReview v1 over HTTPS."""
