-- wrk: renews one of a thousand leases after the other; or, with an argument, the like of it at etcd's gateway.
local number = 0
local etcd
wrk.method = 'POST'
wrk.headers['Content-Type'] = 'application/json'

function init(args)
    etcd = args[1] == 'etcd'
end

function request()
    number = (number + 1) % 1000
    if etcd then
        -- base64 of "bench": compared by its holder's mark, and put again.
        return wrk.format(nil, '/v3/kv/txn', nil, '{"compare":[{"key":"YmVuY2g=","target":"VERSION","result":"GREATER",' ..
            '"version":0}],"success":[{"request_put":{"key":"YmVuY2g=","value":"dHJhY2tlci0w"}}]}')
    end
    return wrk.format(nil, '/api/v1/bench/' .. string.format('site-0.target-%05d', number) .. '/lease/renew', nil,
        '{"holder_id":"bench-1700000000000000000-00000000"}')
end
