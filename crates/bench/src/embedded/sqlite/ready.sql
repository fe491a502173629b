-- Holds only what is ready, so a claim finds the oldest at its beginning.
CREATE INDEX ready ON queue (number) WHERE state = 0
