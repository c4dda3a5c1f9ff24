#!/bin/sh
# Answers / with what Redis has under the key `greeting`. The password is in REDISCLI_AUTH, where redis-cli looks for it.
host=${REDIS_HOST:-redis}
port=${REDIS_PORT:-6379}
if greeting=$(timeout 3 redis-cli -e -h "$host" -p "$port" GET greeting 2>&1) && [ -n "$greeting" ]; then
    status='200 OK'
    text="$greeting
(read from Redis at $host:$port by ${POD_NAME:-web} in environment ${ENVIRONMENT:-unknown})"
else
    status='503 Service Unavailable'
    text="Redis at $host:$port does not answer: $greeting"
fi
printf 'HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n%s\n' "$status" "$text"
