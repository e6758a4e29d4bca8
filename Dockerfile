FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --package holdfast-app --bin holdfast

FROM debian:bookworm-slim
# Roots for TLS to the providers; the newest ones, so no version is pinned.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/holdfast --create-home --shell /usr/sbin/nologin holdfast
COPY --from=build /src/target/release/holdfast /usr/local/bin/holdfast
USER 10001
# SQLite's file lies here, where no other database is configured.
WORKDIR /var/lib/holdfast
VOLUME /var/lib/holdfast
EXPOSE 8080
# The image has no HTTP client; bash can open a socket.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["bash", "-c", \
    "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /healthz HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n' >&3 && head -n 1 <&3 | grep -q ' 200 '"]
ENTRYPOINT ["holdfast"]
CMD ["serve", "--listen", "0.0.0.0:8080"]
