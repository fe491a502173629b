-- Appends a message to the stream unless its key was seen in the last 300 seconds.
if redis.call('SET', KEYS[1], 1, 'NX', 'EX', 300) then
  return redis.call('XADD', KEYS[2], '*', 'p', ARGV[1])
end
return false
