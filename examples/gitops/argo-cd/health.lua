-- The health of a HedgePolicy, as Argo CD shows it.
--
-- Degraded only when a person has to mend the policy. Off because the service is overloaded, or held because a reading is
-- missing, is Hedgerow at work: Healthy, and the message says it. Stopped by a person is Suspended.

local function answer(status, message)
  return { status = status, message = message }
end

local said = {}
if obj.status ~= nil then
  for _, condition in ipairs(obj.status.conditions or {}) do
    said[condition.type] = condition
  end
end
local function is(kind, status)
  return said[kind] ~= nil and said[kind].status == status
end

if obj.metadata.deletionTimestamp ~= nil then
  return answer("Progressing", "It is being deleted")
end
if said.Ready == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return answer("Progressing", "Waiting for the operator")
end
if is("Stalled", "True") then
  return answer("Degraded", said.Stalled.message)
end
if not is("Ready", "True") then
  return answer("Progressing", said.Ready.message)
end
if is("HedgingDisabled", "True") then
  local status = "Healthy"
  if said.HedgingDisabled.reason == "Stopped" then
    status = "Suspended"
  end
  return answer(status, said.HedgingDisabled.message)
end
return answer("Healthy", said.Ready.message)
