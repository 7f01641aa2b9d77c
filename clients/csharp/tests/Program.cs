using System;
using System.Collections.Generic;
using NUnit.Framework.Api;
using NUnit.Framework.Interfaces;
using NUnit.Framework.Internal;

namespace Ticketing.Tests
{
    /// <summary>Runs every test of this assembly with the framework's own runner.</summary>
    internal static class Program
    {
        private static int Main()
        {
            var runner = new NUnitTestAssemblyRunner(new DefaultTestAssemblyBuilder());
            runner.Load(typeof(Program).Assembly, new Dictionary<string, object>());
            ITestResult result = runner.Run(TestListener.NULL, TestFilter.Empty);
            Report(result);
            Console.WriteLine($"{result.PassCount} passed, {result.FailCount} failed, {result.SkipCount} skipped");
            return result.FailCount == 0 && result.PassCount > 0 ? 0 : 1;
        }

        private static void Report(ITestResult result)
        {
            foreach (ITestResult child in result.Children)
            {
                Report(child);
            }

            if (!result.HasChildren && result.ResultState.Status == TestStatus.Failed)
            {
                Console.WriteLine($"FAILED {result.FullName}\n{result.Message}\n{result.StackTrace}");
            }
        }
    }
}
