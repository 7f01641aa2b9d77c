using System;
using System.Diagnostics;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>The one place that reads a clock: the process's monotonic one, of <see cref="Stopwatch"/>.</summary>
    internal static class Clock
    {
        private static readonly double TicksPerTimestamp = (double)TimeSpan.TicksPerSecond / Stopwatch.Frequency;

        internal static TimeSpan Now => TimeSpan.FromTicks((long)(Stopwatch.GetTimestamp() * TicksPerTimestamp));

        /// <summary>Completes after the time, or as soon as the token is cancelled; never throws.</summary>
        internal static async Task Pause(TimeSpan time, CancellationToken early)
        {
            if (time <= TimeSpan.Zero)
            {
                return;
            }

            try
            {
                // The timer may be up to a millisecond early; nothing here may be.
                await Task.Delay(time + TimeSpan.FromMilliseconds(1), early).ConfigureAwait(false);
            }
            catch (OperationCanceledException)
            {
                // As agreed.
            }
        }
    }
}
