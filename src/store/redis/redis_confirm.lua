-- name: CONFIRM
-- As many replicas as the caller waits for have acknowledged a write of this epoch: its quarantine begins.

if provisional and REPLICAS ~= '0' then
    confirm_epoch()
end
publish()
return 1
