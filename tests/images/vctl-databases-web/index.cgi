#!/bin/sh
# Answers with what Redis has under the key `greeting`, and with the texts of the table `greetings` of Postgres. Passwords are in
# REDISCLI_AUTH and PGPASSWORD, where the two programs look for them.
export PGCONNECT_TIMEOUT=3
status='200 OK'
cached=$(timeout 3 redis-cli -e -h "$REDIS_HOST" -p "$REDIS_PORT" GET greeting 2>&1) || status='503 Service Unavailable'
stored=$(timeout 5 psql -qAtX -c 'SELECT text FROM greetings' 2>&1) || status='503 Service Unavailable'
printf 'HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\nRedis: %s\nPostgres: %s\n' \
    "$status" "$cached" "$stored"
