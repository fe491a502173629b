-- Contains only ready rows, so that a claim finds the oldest one at its start.
CREATE INDEX ready ON queue (number) WHERE state = 0
