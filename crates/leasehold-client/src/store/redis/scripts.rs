//! The Lua scripts of the Redis store. Redis runs a script as one step, so each is all or nothing.
//!
//! A resource is held by the key `held` with the value `<lease id, 16 hex digits> <token> <since, ms> <note>`; its time
//! is the key's own. The key `token` counts the grants and never expires. The key `ended` marks a lease that is over.
//! Keys of one lease share one deadline to the millisecond, so they go together.

/// Grants: `KEYS` are `ended`, then `held` and `token` of each resource; `ARGV` are id, ttl in ms (0: endless), note,
/// and how long an end is remembered, in ms.
///
/// A lease that lost a part of what it held to somebody's `DEL` is over. A counter that is missing begins at the server's
/// time in microseconds: above any token given before, even if the data was lost, while that clock does not go back.
pub(super) const GRANT: &str = r"
local id, ttl, note, kept = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
if redis.call('EXISTS', KEYS[1]) == 1 then return {'ended'} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local n, mine, tokens, left, other = (#KEYS - 1) / 2, 0, {}, -1, nil
for i = 1, n do
  local value = redis.call('GET', KEYS[2 * i])
  if value and string.sub(value, 1, 16) == id then
    mine = mine + 1
    tokens[i] = string.match(value, '^%x+ (%d+)')
    left = redis.call('PTTL', KEYS[2 * i])
  elseif value and not other then
    other = {'held', i, value, redis.call('PTTL', KEYS[2 * i]), now}
  end
end
if mine == n then return {'granted', left, unpack(tokens)} end
if mine > 0 then
  for i = 1, n do
    local value = redis.call('GET', KEYS[2 * i])
    if value and string.sub(value, 1, 16) == id then redis.call('DEL', KEYS[2 * i]) end
  end
  redis.call('SET', KEYS[1], '1', 'PX', kept)
  return {'ended'}
end
if other then return other end
for i = 1, n do
  if redis.call('EXISTS', KEYS[2 * i + 1]) == 0 then
    redis.call('SET', KEYS[2 * i + 1], string.format('%d%06d', time[1], time[2]))
  end
  redis.call('INCR', KEYS[2 * i + 1])
  tokens[i] = redis.call('GET', KEYS[2 * i + 1])
  redis.call('SET', KEYS[2 * i], id .. ' ' .. tokens[i] .. ' ' .. string.format('%.0f', now) .. ' ' .. note)
  if ttl > 0 then redis.call('PEXPIREAT', KEYS[2 * i], string.format('%.0f', now + ttl)) end
end
return {'granted', ttl > 0 and ttl or -1, unpack(tokens)}
";

/// Renews: `KEYS` are the `held` of all its resources; `ARGV` are id and ttl in ms (0: endless). All must still be its own;
/// a deadline never moves back.
pub(super) const RENEW: &str = r"
local id, ttl = ARGV[1], tonumber(ARGV[2])
for i = 1, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if not value then return {'lost', ''} end
  if string.sub(value, 1, 16) ~= id then return {'lost', string.match(value, '^%x+ (%d+)') or ''} end
end
local left = redis.call('PTTL', KEYS[1])
if ttl == 0 or left == -1 then
  for i = 1, #KEYS do redis.call('PERSIST', KEYS[i]) end
  return {'renewed', -1}
end
if ttl > left then
  local time = redis.call('TIME')
  local deadline = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + ttl)
  for i = 1, #KEYS do redis.call('PEXPIREAT', KEYS[i], deadline) end
  left = ttl
end
return {'renewed', left}
";

/// Ends: `KEYS` are `ended`, then the `held` of all its resources; `ARGV` are id and how long the end is remembered, in ms.
pub(super) const END: &str = r"
redis.call('SET', KEYS[1], '1', 'PX', tonumber(ARGV[2]))
for i = 2, #KEYS do
  local value = redis.call('GET', KEYS[i])
  if value and string.sub(value, 1, 16) == ARGV[1] then redis.call('DEL', KEYS[i]) end
end
return {'done'}
";
