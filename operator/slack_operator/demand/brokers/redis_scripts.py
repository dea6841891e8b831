"""What Redis does in one step: Lua, so that a consumer that is ended half-way leaves nothing half done.

A queue is a stream of the queue's name with the group `pool`; an entry is deleted once it is acked, so that a stream's
length is what waits and what is in flight. XINFO's own `lag` is nil once entries were deleted, and wrong once a stream
was trimmed (redis 13957): it is not used. Late entries are found by XPENDING with IDLE, which looks at all of them;
XAUTOCLAIM looks at ten for each that is asked for, and would find the late one among a thousand in flight after
minutes.

Others than these scripts may write a stream, and leave two things behind that would make the figures wrong. XTRIM and
XDEL leave entries in flight that are in no stream any more (redis 10756): they would hide as many that wait. XACK
without XDEL, and XGROUP DELCONSUMER (redis 9745), leave entries in the stream that nobody will get: they wait for
nobody, and count as nothing.
"""

from typing import Final

GROUP: Final = "pool"
NOBODY: Final = "given-back"
"""The consumer that holds entries that were given back until their delay is over."""
QUEUES: Final = "act:queues"
"""A set with the names of all queues."""
MADE: Final = "act:made:"
"""Before an installation's name: a set with the queues that it has made, for others may use the same server."""
DEDUPE: Final = "act:id:"
"""Before queue and message id: keys that live as long as ids are told apart."""
REPORTS: Final = "actreport."
"""Before a queue's name: the channel of its containers' reports."""
DEAD_LENGTH: Final = 100_000
DEDUPE_MILLIS: Final = 120_000
FORGOTTEN_MILLIS: Final = 3_600_000
"""A consumer that has nothing and was not seen for so long was ended without a word."""
NEVER_MILLIS: Final = 999_999_999_999_999
"""An idle time that no entry reaches."""
MOST_COUNTED: Final = 32
"""Entries that are counted one by one, bodies and all, where a stream holds some that nobody will get."""
MOST_TIDIED: Final = 10_000
"""Entries in flight that are taken out in one go because they are in the stream no more: Redis does nothing else then,
for about 10 ms."""

PUBLISH: Final = """
-- stream, key of the id | milliseconds, body, id
if redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1]) then
  return redis.call('XADD', KEYS[1], '*', 'body', ARGV[2], 'id', ARGV[3])
end
return false
"""

TAKE: Final = f"""
-- stream | consumer, ack wait in ms, count: late ones first, then new ones; id, fields, attempt
local out, count = {{}}, tonumber(ARGV[3])
local late = redis.call('XPENDING', KEYS[1], '{GROUP}', 'IDLE', ARGV[2], '-', '+', count)
for _, entry in ipairs(late) do
  local claimed = redis.call('XCLAIM', KEYS[1], '{GROUP}', ARGV[1], ARGV[2], entry[1])
  if claimed[1] and claimed[1][2] then
    out[#out + 1] = {{claimed[1][1], claimed[1][2], entry[4] + 1}}
  else
    redis.call('XACK', KEYS[1], '{GROUP}', entry[1])
  end
end
if #out < count then
  local new = redis.call('XREADGROUP', 'GROUP', '{GROUP}', ARGV[1], 'COUNT', count - #out, 'STREAMS', KEYS[1], '>')
  if new then
    for _, entry in ipairs(new[1][2]) do out[#out + 1] = {{entry[1], entry[2], 1}} end
  end
end
return out
"""

FORGET: Final = """
-- stream, set of all queues: an empty stream goes; what is in flight is in the stream until it is acked
if redis.call('XLEN', KEYS[1]) == 0 then
  redis.call('DEL', KEYS[1])
  redis.call('SREM', KEYS[2], KEYS[1])
  return 1
end
return 0
"""

MINE: Final = f"""
local function mine(key, id, consumer)
  local found = redis.call('XPENDING', key, '{GROUP}', id, id, 1)
  return found[1] and found[1][2] == consumer
end
"""

HOLD: Final = (
    MINE
    + f"""
-- stream | consumer, id, new consumer, idle in ms: give back, or begin the ack wait anew
if not mine(KEYS[1], ARGV[2], ARGV[1]) then return 0 end
redis.call('XCLAIM', KEYS[1], '{GROUP}', ARGV[3], 0, ARGV[2], 'IDLE', ARGV[4], 'JUSTID')
return 1
"""
)

BURY: Final = (
    MINE
    + f"""
-- stream, dead letters | consumer, id, message id, attempts
if not mine(KEYS[1], ARGV[2], ARGV[1]) then return 0 end
local found = redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2])
if found[1] then
  local entry = {{'queue', KEYS[1], 'message', ARGV[3], 'attempts', ARGV[4]}}
  for _, value in ipairs(found[1][2]) do entry[#entry + 1] = value end
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', {DEAD_LENGTH}, '*', unpack(entry))
end
redis.call('XACK', KEYS[1], '{GROUP}', ARGV[2])
redis.call('XDEL', KEYS[1], ARGV[2])
return 1
"""
)

TIDY: Final = f"""
-- take out of what is in flight what is in the stream no more, and return how many these were; an idle time that nobody
-- reaches claims nothing. Each call looks at ten times `count` entries, the oldest first
local function tidied(key, count)
  local gone = 0
  repeat
    local found = redis.pcall('XAUTOCLAIM', key, '{GROUP}', '{NOBODY}', '{NEVER_MILLIS}', '0', 'COUNT', count, 'JUSTID')
    local some = found.err and 0 or #(found[3] or {{}})
    gone, count = gone + some, 100
  until some == 0 or gone >= {MOST_TIDIED}
  return gone
end
"""

DROP: Final = (
    TIDY
    + """
-- stream | MAXLEN or MINID, its value: how many went
local gone = redis.call('XTRIM', KEYS[1], ARGV[1], '=', ARGV[2])
if gone > 0 then tidied(KEYS[1], 100) end
return gone
"""
)

LAG: Final = (
    TIDY
    + f"""
-- streams | how many of them may be tidied, and how many first entries looked at: length, pending, read, age of the
-- oldest in ms, entries that nobody will get, or -1; all as one text, for a client in Python takes longer to read many
-- answers than Redis to give them. A length of -1 is no stream: something else is there, or nothing, and then the name
-- goes, for `ensure` makes the stream before it names it. A stream that has lost its group gets it again
local now, looks, tidies, out = redis.call('TIME'), tonumber(ARGV[1]), tonumber(ARGV[1]), {{}}
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local function age(id) return math.max(0, now_ms - tonumber(string.match(id, '^%d+'))) end
local function is_after(id, other)
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  local other_ms, other_seq = string.match(other, '^(%d+)-(%d+)$')
  ms, seq, other_ms, other_seq = tonumber(ms), tonumber(seq), tonumber(other_ms), tonumber(other_seq)
  return ms > other_ms or (ms == other_ms and seq > other_seq)
end
-- Return how many wait of a stream some of whose entries nobody will get, and the first of them: counted if they are
-- few, else by what was added and not read, or false
local function waiting(key, last, read)
  local some = redis.call('XRANGE', key, '(' .. last, '+', 'COUNT', {MOST_COUNTED})
  local count = #some
  if count == {MOST_COUNTED} then
    count = false
    local stream = redis.call('XINFO', 'STREAM', key)
    for at = 1, #stream, 2 do
      if read and stream[at] == 'entries-added' then count = math.max(stream[at + 1] - read, {MOST_COUNTED}) end
    end
  end
  return count, some[1]
end
for _, key in ipairs(KEYS) do
  local pending, read, last, oldest, length, lost = 0, false, false, -1, -1, -1
  local kind = redis.call('TYPE', key).ok
  if kind == 'none' then
    redis.pcall('SREM', '{QUEUES}', key)
  elseif kind == 'stream' then
    length = redis.call('XLEN', key)
    for _, group in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      if group[2] == '{GROUP}' then pending, last, read = group[6], group[8], group[10] end
    end
    if not last then
      redis.pcall('XGROUP', 'CREATE', key, '{GROUP}', '0', 'ENTRIESREAD', '0')
      last, read = '0-0', 0
    end
    if pending > 0 and tidies > 0 then
      tidies = tidies - 1
      pending = pending - tidied(key, 10)
    end
    if length > pending and looks > 0 then
      looks, lost = looks - 1, 0
      local first = redis.call('XRANGE', key, '-', '+', 'COUNT', 1)[1]
      if not is_after(first[1], last) then
        if #redis.call('XPENDING', key, '{GROUP}', first[1], first[1], 1) == 0 then
          local count
          count, first = waiting(key, last, read)
          lost = count and length - pending - math.min(length - pending, count) or -1
        else
          first = redis.call('XRANGE', key, '(' .. last, '+', 'COUNT', 1)[1]
        end
      end
      if first then oldest = age(first[1]) end
    end
  end
  out[#out + 1] = string.format('%d %d %d %d %d', length, pending, read or -1, oldest, lost)
end
return table.concat(out, ' ')
"""
)

SWEEP: Final = f"""
-- stream | milliseconds, a consumer that leaves or '': consumers that have nothing, and are gone
local found = redis.pcall('XINFO', 'CONSUMERS', KEYS[1], '{GROUP}')
if found.err then return 0 end
for _, consumer in ipairs(found) do
  local name, pending, idle = consumer[2], consumer[4], consumer[6]
  if pending == 0 and (name == ARGV[2] or idle > tonumber(ARGV[1])) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], '{GROUP}', name)
  end
end
return 1
"""
