package ticketing

import kotlin.io.path.Path
import kotlin.io.path.readText
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** The README's Kotlin program is Example.kt, which is compiled with the tests. */
class ReadmeTest {
    @Test
    fun `the README shows the program that is compiled`() {
        val example = Path("src/test/kotlin/Example.kt").readText()
        assertTrue(Path("../README.md").readText().contains("```kotlin\n$example```\n"))
    }
}
