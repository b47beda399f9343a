// Prints the definitions of Kotlin files as the Kotlin compiler names them: path, first line, name (line 0: it refuses the file).
//
//     java -cp 'JARS/*' Kotlin.java < PATHS
//
// JARS has a Kotlin 1.9 compiler, as in the wheel kotlin-jupyter-kernel 0.12.
import java.io.*;
import java.nio.file.*;
import org.jetbrains.kotlin.cli.common.CLIConfigurationKeys;
import org.jetbrains.kotlin.cli.common.messages.MessageCollector;
import org.jetbrains.kotlin.cli.jvm.compiler.*;
import org.jetbrains.kotlin.com.intellij.openapi.util.Disposer;
import org.jetbrains.kotlin.com.intellij.psi.*;
import org.jetbrains.kotlin.config.*;
import org.jetbrains.kotlin.psi.*;

public class Kotlin {
    public static void main(String[] given) throws Exception {
        CompilerConfiguration configuration = new CompilerConfiguration();
        configuration.put(CLIConfigurationKeys.MESSAGE_COLLECTOR_KEY, MessageCollector.Companion.getNONE());
        KtPsiFactory factory = new KtPsiFactory(KotlinCoreEnvironment.createForProduction(
            Disposer.newDisposable("definitions"), configuration, EnvironmentConfigFiles.JVM_CONFIG_FILES).getProject());
        StringBuilder out = new StringBuilder();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String path; (path = input.readLine()) != null; ) {
            String text = Files.readString(Path.of(path)).replace("\r\n", "\n"), file = path;
            StringBuilder found = new StringBuilder();
            boolean[] isBroken = {false};
            factory.createFile(text).accept(new KtTreeVisitorVoid() {
                @Override public void visitErrorElement(PsiErrorElement element) { isBroken[0] = true; }

                @Override public void visitElement(PsiElement element) {
                    if (element instanceof KtNamedDeclaration && defines((KtNamedDeclaration) element)) {
                        KtNamedDeclaration declared = (KtNamedDeclaration) element;
                        PsiElement first = declared.getFirstChild();
                        while (first instanceof PsiComment || first instanceof PsiWhiteSpace) first = first.getNextSibling();
                        long line = text.substring(0, first.getTextRange().getStartOffset()).chars().filter(c -> c == '\n').count() + 1;
                        found.append(file).append("\t").append(line).append("\t").append(declared.getName()).append("\n");
                    }
                    super.visitElement(element);
                }
            });
            out.append(isBroken[0] ? file + "\t0\t\n" : found.toString());
        }
        System.out.print(out);
        System.out.flush();
        System.exit(0);
    }

    static boolean defines(KtNamedDeclaration declared) {
        if (declared.getNameIdentifier() == null) return false;
        if (declared instanceof KtProperty) return !((KtProperty) declared).isLocal();
        if (declared instanceof KtParameter) return ((KtParameter) declared).hasValOrVar();
        return declared instanceof KtClassOrObject || declared instanceof KtNamedFunction || declared instanceof KtTypeAlias;
    }
}
