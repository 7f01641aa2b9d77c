# Sourced: puts the .NET of scripts/toolchain.sh into the environment.
DOTNET_ROOT="$("$(dirname "${BASH_SOURCE[0]}")/toolchain.sh")" || exit $?
export DOTNET_ROOT DOTNET_ROLL_FORWARD=Major DOTNET_MULTILEVEL_LOOKUP=0 DOTNET_CLI_TELEMETRY_OPTOUT=1
export DOTNET_SKIP_FIRST_TIME_EXPERIENCE=1 DOTNET_SYSTEM_GLOBALIZATION_INVARIANT=1 DOTNET_NOLOGO=1
export PATH="$DOTNET_ROOT:$PATH"
# No build server stays behind, and nothing is looked for on the network.
BUILD_FLAGS=(-nodeReuse:false -p:UseSharedCompilation=false -p:Offline=true -v:quiet -nologo)
