# The image runs as an ordinary user on a read-only root file system, and writes only to /data and /tmp:
#   docker run --read-only --tmpfs /tmp --volume tollgate:/data --publish 8080:8080 IMAGE
# The tag of the base image equals the Bun version in package.json. A tag can be moved: releases give its digest, as in
#   docker build --build-arg BUN_IMAGE=oven/bun@sha256:… .

ARG BUN_IMAGE=oven/bun:1.4.5-slim
FROM $BUN_IMAGE AS install
WORKDIR /app
COPY package.json bun.lock bunfig.toml ./
COPY patches ./patches
# Peer dependencies are a compiler and types: only development needs them.
RUN bun install --frozen-lockfile --production --omit=peer

FROM $BUN_IMAGE
WORKDIR /app
RUN mkdir -m 0700 /data && chown 1000:1000 /data
COPY --from=install /app/node_modules ./node_modules
COPY package.json LICENSE ./
COPY drizzle ./drizzle
COPY src ./src
# The transpiler's cache would need a writable folder. Without the last line, 256 calls at a time would use the transport fetch.
ENV NODE_ENV=production \
    HOST=0.0.0.0 \
    PORT=8080 \
    TOLLGATE_DATA_DIR=/data \
    BUN_RUNTIME_TRANSPILER_CACHE_PATH=0 \
    BUN_CONFIG_MAX_HTTP_REQUESTS=65535
USER 1000:1000
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
  CMD ["bun", "-e", "const { ok } = await fetch(`http://127.0.0.1:${process.env.PORT}/readyz`); process.exit(ok ? 0 : 1)"]
CMD ["bun", "src/main.ts"]
