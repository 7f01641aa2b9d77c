# The server alone, statically linked, as an unprivileged user.
FROM rust:1.95-bookworm AS build
WORKDIR /source
COPY . .
# A target given by name keeps the static C runtime away from build scripts and macros.
RUN host="$(rustc -vV | sed -n 's/^host: //p')" \
 && RUSTFLAGS="-C target-feature=+crt-static" \
    cargo build --release --locked --package ticketing-server --target "$host" \
 && cp "target/$host/release/ticketing-server" /ticketing-server

FROM scratch
COPY --from=build /ticketing-server /ticketing-server
USER 65532:65532
EXPOSE 5225
ENTRYPOINT ["/ticketing-server"]
