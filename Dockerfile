# An image of the controller: docker build --build-arg VERSION=v0.0.0-mine -t NAME:TAG .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY api api
COPY cmd cmd
COPY config config
COPY internal internal
ARG VERSION=v0.0.0-dev
RUN CGO_ENABLED=0 GOTOOLCHAIN=local go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=${VERSION}" -o /holdfast ./cmd/holdfast

FROM scratch
# Git servers and registries are spoken to over TLS.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /holdfast /holdfast
# The Deployment's user and its writable directories: /data and /tmp are volumes.
USER 65532:65532
ENTRYPOINT ["/holdfast"]
CMD ["run"]
